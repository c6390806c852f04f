"""What an encoder's layers do to the tokens of texts."""
