from sardonyx._sardonyx import version as _v

__version__ = _v()
