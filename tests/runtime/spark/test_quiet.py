"""A Spark that situ starts keeps to itself what is nobody's error."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: A client gives back the results of its last action in a thread of its own, so that this may come after the session
#: was closed. Here it always does.
GIVEN_BACK_TOO_LATE = """
import grpc
import pyspark.sql.connect.proto as messages
import situ

session = situ.spark_session("local[1]", {"spark.api.mode": "connect", "spark.sql.shuffle.partitions": "1"})
assert session.range(3).count() == 3
client = session.client
late = messages.ReleaseExecuteRequest(session_id=session.session_id, operation_id=session.session_id)
late.release_all.SetInParent()
client.release_session()
try:
    client._stub.ReleaseExecute(late, metadata=client._builder.metadata())
except grpc.RpcError as error:
    assert "INVALID_HANDLE" in error.details(), error
    print("refused")
session.stop()
"""


@pytest.mark.slow
@pytest.mark.storm
def test_a_result_that_is_given_back_after_the_session_was_closed() -> None:
    command = [sys.executable, "-c", GIVEN_BACK_TOO_LATE]
    any_port = os.environ | {"SPARK_TESTING": "1"}  # else it is always the same, which another server may have
    done = subprocess.run(command, env=any_port, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "refused\n", "")
