"""The errors that fedballot raises on purpose. Each says what is wrong, what is allowed and how to mend it."""


class FedballotError(Exception):
    """Base of every error that is meant for the user; the command line prints it without a traceback."""


class SettingsError(FedballotError):
    """A setting, file or combination that cannot work (exit code 2)."""


class DataError(SettingsError):
    """A data file that cannot be used: names the file, the row or key, and what is expected (exit code 2)."""


class RunError(FedballotError):
    """A run that started and failed (exit code 1)."""
