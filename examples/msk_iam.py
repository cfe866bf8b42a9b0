"""Log in to Amazon MSK with IAM: a token is a signed URL (signature version 4), made here without a further package.

::

    export AWS_ACCESS_KEY_ID=... AWS_SECRET_ACCESS_KEY=... AWS_SESSION_TOKEN=...
    python msk_iam.py --region eu-west-1 -b HOST:9098 --topic orders

Only the signature is tested, as there is no MSK on a developer's machine. Credentials that expire, such as those of a
role, have to be fetched again: do that in ``credentials``, which is called for each token.
"""

import argparse
import base64
import hashlib
import hmac
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote

from pyconsumer import KafkaConsumer

_LIFE_S = 900  # what MSK accepts at most
_NOTHING = hashlib.sha256(b"").hexdigest()


class Credentials(NamedTuple):
    access_key: str
    secret_key: str
    session_token: str = ""


def from_environment() -> Credentials:
    read = os.environ
    return Credentials(read["AWS_ACCESS_KEY_ID"], read["AWS_SECRET_ACCESS_KEY"], read.get("AWS_SESSION_TOKEN", ""))


def signed_url(
    host: str,
    path: str,
    query: Mapping[str, str],
    service: str,
    region: str,
    credentials: Credentials,
    at: datetime,
    life_s: int,
    payload_hash: str = _NOTHING,
) -> str:
    """A URL for GET that is signed in its query (AWS Signature Version 4)."""
    day, moment = at.strftime("%Y%m%d"), at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{region}/{service}/aws4_request"
    signed = {
        **query,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(life_s),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        signed["X-Amz-Security-Token"] = credentials.session_token
    canonical_query = "&".join(
        f"{quote(name, safe='-_.~')}={quote(signed[name], safe='-_.~')}" for name in sorted(signed)
    )
    request = f"GET\n{path}\n{canonical_query}\nhost:{host}\n\nhost\n{payload_hash}"
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = ("AWS4" + credentials.secret_key).encode()
    for part in (day, region, service, "aws4_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    return f"https://{host}{path}?{canonical_query}&X-Amz-Signature={key.hex()}"


class MskTokens:
    """A provider of tokens for ``sasl_oauth_token_provider``."""

    def __init__(self, region: str, credentials: Callable[[], Credentials] = from_environment) -> None:
        self.region = region
        self.credentials = credentials

    def token(self) -> str:
        return self.token_at(datetime.now(UTC))

    def token_at(self, at: datetime) -> str:
        url = signed_url(
            f"kafka.{self.region}.amazonaws.com",
            "/",
            {"Action": "kafka-cluster:Connect"},
            "kafka-cluster",
            self.region,
            self.credentials(),
            at,
            _LIFE_S,
        )
        # The agent is for MSK's logs, and is not signed.
        return base64.urlsafe_b64encode(f"{url}&User-Agent=pyconsumer".encode()).decode().rstrip("=")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-b", "--bootstrap-servers", required=True)
    parser.add_argument("--region", required=True)
    parser.add_argument("--topic", required=True)
    given = parser.parse_args()
    with KafkaConsumer(
        given.topic,
        bootstrap_servers=given.bootstrap_servers,
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=MskTokens(given.region),
        auto_offset_reset="earliest",
    ) as consumer:
        for record in consumer:
            print(record.partition, record.offset, record.value)
