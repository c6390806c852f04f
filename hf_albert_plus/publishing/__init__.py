"""What of a model directory goes to the Hub, and how it gets there."""
