"""Frozen encoders: networks that somebody else has trained, which make vectors of texts and images.

``encoder.py`` says what one is, ``sources.py`` is the door from a name to one, ``stored.py`` the features on disk.
"""
