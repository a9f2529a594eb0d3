"""Writes or reads an object, or uploads a part of a plan (a file) once more: stores.py put|get|part URL FILE, then the addresses of S3 and Azure, and Azure's key."""

import base64
import email.utils
import hashlib
import hmac
import json
import sys
import urllib.request

action, url, path, s3, azure, key = sys.argv[1:]
scheme, rest = url.split("://")
bucket, name = rest.split("/", 1)
ACCOUNT = "devstoreaccount1"


def of_azure(method, body):
    """A request with the signature of a shared key."""
    target = f"/{ACCOUNT}/{bucket}/{name}"
    headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    if method == "PUT":
        headers["x-ms-blob-type"] = "BlockBlob"
    signed = "".join(f"{header}:{value}\n" for header, value in sorted(headers.items()))
    length = str(len(body)) if body else ""
    kind = "application/octet-stream" if method == "PUT" else ""
    text = f"{method}\n\n\n{length}\n\n{kind}\n\n\n\n\n\n\n{signed}/{ACCOUNT}{target}"
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    if method == "PUT":
        headers["Content-Type"] = kind
        headers["Content-Length"] = str(len(body))
    request = urllib.request.Request(azure + target, body if method == "PUT" else None, headers, method=method)
    return urllib.request.urlopen(request).read()


if scheme == "s3":
    import boto3

    client = boto3.client("s3", "us-east-1", endpoint_url=s3, aws_access_key_id="x", aws_secret_access_key="x")
    if action == "put":
        client.upload_file(path, bucket, name)
    elif action == "part":
        with open(path) as file:
            upload = json.load(file)["files"][0]["upload"]
        client.upload_part(Bucket=bucket, Key=name, PartNumber=2, UploadId=upload, Body=b"other bytes" * 500_000)
    else:
        client.download_file(bucket, name, path)
elif action == "put":
    with open(path, "rb") as file:
        of_azure("PUT", file.read())
else:
    with open(path, "wb") as file:
        file.write(of_azure("GET", b""))
