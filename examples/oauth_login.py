"""Log in with a token of an OpenID Connect provider (OAUTHBEARER), by the grant for programs: client credentials.

It starts no broker, since the embedded one knows passwords only. It takes a cluster that trusts the provider::

    export CLIENT_SECRET=...
    python oauth_login.py -b HOST:PORT --token-url https://login.example.com/token --client-id orders --cafile ca.pem

Without ``--cafile`` the connection to the broker is not encrypted, and anyone who listens can use the token.
"""

import argparse
import base64
import json
import os
import threading
import time
import urllib.parse
import urllib.request
from itertools import islice

from pyconsumer import KafkaConsumer, KafkaProducer

TOPIC, RECORDS = "orders-by-token", 5


class ClientCredentials:
    """A provider of tokens for ``sasl_oauth_token_provider``. One may serve several clients.

    A token is used again until most of its life is over. Clients ask at each connection, and again before the broker
    ends a session (KIP-368), from threads of their own.
    """

    def __init__(self, url: str, client_id: str, secret: str, scope: str = "") -> None:
        self._url = url
        self._form = urllib.parse.urlencode({"grant_type": "client_credentials", **({"scope": scope} if scope else {})})
        quoted = ":".join(urllib.parse.quote(each, safe="") for each in (client_id, secret))  # RFC 6749, 2.3.1
        self._headers = {"Authorization": "Basic " + base64.b64encode(quoted.encode()).decode()}
        self._lock = threading.Lock()
        self._token = ""
        self._fresh_until = 0.0

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                request = urllib.request.Request(self._url, self._form.encode(), self._headers)
                asked = time.monotonic()
                with urllib.request.urlopen(request, timeout=10) as response:
                    answer = json.load(response)
                self._token = answer["access_token"]
                self._fresh_until = asked + 0.8 * float(answer.get("expires_in", 60))
            return self._token


def main(servers: str, provider: ClientCredentials, cafile: str | None) -> None:
    options = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_SSL" if cafile else "SASL_PLAINTEXT",
        "ssl_cafile": cafile,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
    }
    with KafkaProducer(**options) as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, f"order {number}")
        producer.flush()
    with KafkaConsumer(TOPIC, group_id="token-readers", auto_offset_reset="earliest", **options) as consumer:
        print(f"{sum(1 for _ in islice(consumer, RECORDS))} records read with a token")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", required=True)
    parser.add_argument("--token-url", required=True)
    parser.add_argument("--client-id", required=True, help="its secret is in the environment variable CLIENT_SECRET")
    parser.add_argument("--scope", default="")
    parser.add_argument("--cafile", help="certificates that the broker's is checked against")
    given = parser.parse_args()
    secret = os.environ["CLIENT_SECRET"]  # on the command line every user of the machine could read it
    main(
        given.bootstrap_servers,
        ClientCredentials(given.token_url, given.client_id, secret, given.scope),
        given.cafile,
    )
