"""The conformance door: operations of the library for programs in other languages, and its runner.

`serve` answers requests, one JSON object a line; `run` asks an implementation what vectors ask, and
compares. Ports of the library are checked with it, and the library is its first implementation.
"""

from ctxalgebra.conformance.door import OPERATIONS, answer, serve

__all__ = ["OPERATIONS", "answer", "serve"]
