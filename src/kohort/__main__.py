"""Entry point of `python -m kohort`, which runs the command `kohort`."""

from kohort.cli import main

if __name__ == "__main__":
    main()
