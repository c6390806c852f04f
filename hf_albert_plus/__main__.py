"""`python -m hf_albert_plus` is `albert-plus`."""

from .cli.app import main

if __name__ == "__main__":
    main()
