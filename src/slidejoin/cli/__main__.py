"""``python -m slidejoin.cli``: the same as the ``slidejoin`` command."""

from slidejoin.cli.main import main

if __name__ == "__main__":
    main()
