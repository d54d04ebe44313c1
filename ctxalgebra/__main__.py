"""`python -m ctxalgebra` is the command line."""

import sys

from ctxalgebra.cli import main

if __name__ == "__main__":
    sys.exit(main())
