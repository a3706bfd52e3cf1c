"""`python -m coopbandits` is the command line."""

from coopbandits.cli import main

if __name__ == "__main__":
    main()
