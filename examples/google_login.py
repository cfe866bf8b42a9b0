"""Log in to Google Cloud's Managed Service for Apache Kafka with the machine's service account (OAUTHBEARER).

::

    python google_login.py -b bootstrap.CLUSTER.REGION.managedkafka.PROJECT.cloud.goog:9092 --topic orders

The service takes an access token in the form of a JWT: a header, claims with the account, and the token itself.
"""

import argparse
import base64
import json
import threading
import time
import urllib.request

from pyconsumer import KafkaConsumer

METADATA = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default"


def _base64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class ServiceAccount:
    """Tokens of the machine's account for ``sasl_oauth_token_provider``. One may serve several clients."""

    def __init__(self, url: str = METADATA) -> None:
        self._url = url
        self._lock = threading.Lock()
        self._token, self._fresh_until = "", 0.0

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                answer, account, now = json.loads(self._ask("token")), self._ask("email"), time.time()
                life = float(answer["expires_in"])
                claims = {"exp": now + life, "iat": now, "iss": "Google", "scope": "kafka", "sub": account}
                head = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}
                parts = (json.dumps(head), json.dumps(claims), answer["access_token"])
                self._token = ".".join(map(_base64, parts))
                self._fresh_until = time.monotonic() + 0.8 * life
            return self._token

    def _ask(self, what: str) -> str:
        request = urllib.request.Request(f"{self._url}/{what}", headers={"Metadata-Flavor": "Google"})
        with urllib.request.urlopen(request, timeout=10) as response:
            text: str = response.read().decode()
            return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    given = parser.parse_args()
    with KafkaConsumer(
        given.topic,
        bootstrap_servers=given.bootstrap_servers,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=ServiceAccount(),
        auto_offset_reset="earliest",
    ) as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)
