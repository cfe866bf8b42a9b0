"""The list of copied clients: kafka-python and aiokafka, with their versions.

It imports nothing heavy, as ``installing`` does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["COMPAT", "LAYERS", "Layer"]

#: The beginning of the names of our modules.
COMPAT: Final = "pyconsumer.compat."


class Layer(NamedTuple):
    """A client whose imports can be redirected to pyconsumer.

    Attributes:
        name: name of the client's package.
        distribution: name of the client at PyPI.
        version: the version whose API pyconsumer has.
    """

    name: str
    distribution: str
    version: str

    @property
    def home(self) -> str:
        """The name of pyconsumer's package for this client."""
        return f"{COMPAT}{self.name}"


#: The layers by the name of the package.
LAYERS: Final = {
    layer.name: layer for layer in (Layer("aiokafka", "aiokafka", "0.14.0"), Layer("kafka", "kafka-python", "3.0.12"))
}
