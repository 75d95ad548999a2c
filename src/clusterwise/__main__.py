"""``python -m clusterwise``: the command line."""

from clusterwise.cli import main

if __name__ == "__main__":
    main()
