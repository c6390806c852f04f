"""What a machine with a GPU says of this package: checks and measurements in parts, each kept as it ends, and the table of all of them."""
