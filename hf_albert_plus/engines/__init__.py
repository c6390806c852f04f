"""What runs a model: one interface, a file for each runtime, and models that read texts: classifiers, and encoders that give vectors."""
