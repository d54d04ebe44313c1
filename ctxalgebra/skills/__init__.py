"""Skills that stay out of the context until they are needed: records, groups, scope, loading.

Pure functions on values: whoever calls reads files, asks the host, and keeps the state.
"""
