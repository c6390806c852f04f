"""What a task is: its columns, labels and rows, and where they are read from."""
