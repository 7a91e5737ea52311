"""What can go wrong, in the words of the command line."""


class Error(Exception):
    """Every failure that stepcast reports."""


class ConfigError(Error, ValueError):
    """You can repair it: a bad file, an impossible parallel layout. Says where, what was found, what is expected (exit code 1)."""


class DeviceError(Error, RuntimeError):
    """A device or the communication failed (exit code 2)."""


class BugError(Error, RuntimeError):
    """A bug of stepcast (exit code 3)."""


class Note(UserWarning):
    """What the command line says beside its answer: gaps that were guessed, parts that are left out."""
