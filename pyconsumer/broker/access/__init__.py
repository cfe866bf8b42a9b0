"""Access control: ``rules`` decides as Kafka's StandardAuthorizer, ``store`` is the part of the controller's state,
``table`` says which operation each API needs, ``authorizer`` asks and logs, and ``gate`` stands before the handlers.

A broker without an authorizer uses none of this.
"""

from __future__ import annotations
