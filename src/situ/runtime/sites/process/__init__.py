"""A site as a process: threads around its core, which receive, commit, send, read and write."""
