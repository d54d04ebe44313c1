"""`python -m ctxalgebra.conformance` is `ctxalgebra conformance`."""

import sys

from ctxalgebra.cli import main

if __name__ == "__main__":
    sys.exit(main(["conformance", *sys.argv[1:]]))
