"""Log in to Azure Event Hubs with the managed identity of a virtual machine or a container (OAUTHBEARER).

::

    python azure_login.py -b NAMESPACE.servicebus.windows.net:9093 --topic orders

An application with a secret needs no code: give the settings of a provider, with the token end point of the tenant.
"""

import argparse
import json
import threading
import time
import urllib.parse
import urllib.request

from pyconsumer import KafkaConsumer

METADATA = "http://169.254.169.254/metadata/identity/oauth2/token"


class ManagedIdentity:
    """Tokens of the machine's identity for ``sasl_oauth_token_provider``. One may serve several clients."""

    def __init__(self, servers: str, url: str = METADATA) -> None:
        resource = "https://" + servers.partition(",")[0].rpartition(":")[0]
        query = urllib.parse.urlencode({"api-version": "2018-02-01", "resource": resource})
        self._request = urllib.request.Request(f"{url}?{query}", headers={"Metadata": "true"})
        self._lock = threading.Lock()
        self._token, self._fresh_until = "", 0.0

    def token(self) -> str:
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                with urllib.request.urlopen(self._request, timeout=10) as response:
                    answer = json.load(response)
                self._token = answer["access_token"]
                self._fresh_until = time.monotonic() + 0.8 * float(answer["expires_in"])
            return self._token


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
        sasl_oauth_token_provider=ManagedIdentity(given.bootstrap_servers),
        auto_offset_reset="earliest",
    ) as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)
