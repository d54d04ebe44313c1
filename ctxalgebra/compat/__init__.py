"""Rules of the systems that this library learned from, as they are, under names of their own.

Where the library has a better rule (`docs/differences.md` says which and why), the original's is
kept here beside it, pure, on the host's plain JSON messages: for ports that have to agree with
the original, and for measuring the two against each other. Only the conformance door uses it.

Profiles: `paging_*` is the paging extension, version 0.3.6; `memory_*` is the working memory,
version 0.2.0, without the faults that nobody may want (each module says which); `host_*` is the
host itself, version 0.84.0, without what makes it hang or cut nothing; `travel_*` is the travel
extension as of August 2026, and where a function says so as of its earlier version.
"""
