"""Shaping of what is sent to a provider: texts of tools, and how hard a model is to think.

Pure functions on plain JSON; what they are given is never changed.
"""
