"""Clusters and stores, as they stand in the file."""

from typing import Annotated, Literal

from pydantic import Field

from mirrorlake.bucket_access import Addressing, ContentCheck
from mirrorlake.config import section as fields
from mirrorlake.config.section import Section, option


class ClusterLimitForm(Section):
    """How fast a cluster is read, at most."""

    bytes_per_second: fields.SegmentSize = option(
        ...,
        "Bytes that all mirrors of this file together read from the cluster in a second. Each has an equal share; what "
        "a mirror's own `limit` leaves of its share goes to the others. Records written to the cluster, as by "
        "`restore`, do not count. `run` takes another value with a restart.",
    )


class ClusterForm(Section):
    """A Kafka cluster; its key is the name that mirrors refer to."""

    bootstrap_servers: fields.Servers = option(..., "Brokers to ask first. One that answers is enough.")
    properties: fields.Properties = option({}, "Client properties under Kafka's own names, see below.")
    limit: ClusterLimitForm | None = option(None, "How fast it is read, at most.", note="as fast as can be")


class StoreFilesystemForm(Section):
    """A folder that holds archives."""

    type: Literal["filesystem"] = option(..., "Selects this kind of store.")
    root: fields.Root = option(..., "The folder. It must exist, on a filesystem with hard links.")


class StoreS3Form(Section):
    """A bucket of S3, or of a store that speaks its protocol and honours `If-None-Match`.

    Credentials are those named here; else those of `profile` or `AWS_PROFILE`; else what the environment gives: `AWS_*`
    variables, a web identity, a container's or an instance's role.
    """

    type: Literal["s3"] = option(..., "Selects this kind of store.")
    bucket: fields.Text = option(..., "The bucket. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    region: fields.Text = option(..., "The bucket's region.")
    endpoint: fields.Endpoint | None = option(
        None, "Address of the store; leave it out for AWS. Over `http://` nothing is encrypted."
    )
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    addressing: Addressing = option(
        Addressing.PATH, "`virtual-hosted`: the bucket's name goes before the host's, in `endpoint` leave it out."
    )
    content_check: ContentCheck | None = option(
        None,
        "What tells the store that content was changed on the way: a digest in the signature (0.5 CPU seconds a GiB), "
        "a checksum (0.04; the store must know CRC-64/NVME), or nothing.",
        note="`sha256` over `http://`, else `none`, as TLS does it",
    )
    profile: fields.Text | None = option(
        None, "A profile of the AWS configuration files (`~/.aws`).", note="`AWS_PROFILE`"
    )
    access_key_id: fields.SecretText | None = option(None, "With the next: the credentials.")
    secret_access_key: fields.SecretText | None = option(None, "See above.")
    session_token: fields.SecretText | None = option(None, "Of temporary credentials.")


class StoreGcsForm(Section):
    """A bucket of Google Cloud Storage.

    Credentials are the key named here; else what the environment gives: `GOOGLE_*` variables, the application default
    credentials, the metadata service.
    """

    type: Literal["gcs"] = option(..., "Selects this kind of store.")
    bucket: fields.Text = option(..., "The bucket. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    endpoint: fields.Endpoint | None = option(None, "Address of the store; leave it out for Google's.")
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    service_account_key: fields.SecretText | None = option(None, "A service account's key, the JSON text.")


class StoreAzureForm(Section):
    """A container of Azure Blob Storage.

    Credentials are those named here; else what the environment gives: `AZURE_*` variables, a workload or managed
    identity.
    """

    type: Literal["azure"] = option(..., "Selects this kind of store.")
    account: fields.Text = option(..., "The storage account.")
    container: fields.Text = option(..., "The container. It must exist.")
    prefix: fields.Prefix = option("", "What all keys begin with.")
    endpoint: fields.Endpoint | None = option(None, "Address of the store; leave it out for Azure's.")
    ca_file: fields.CaFile | None = option(
        None, "Certificates of authorities to trust beside the system's, in PEM; only over `https://`."
    )
    account_key: fields.SecretText | None = option(None, "The account's key.")
    sas_token: fields.SecretText | None = option(None, "A shared access signature, instead of the key.")


StoreForm = Annotated[StoreFilesystemForm | StoreS3Form | StoreGcsForm | StoreAzureForm, Field(discriminator="type")]
STORE_FORMS: dict[str, type[Section]] = {
    "filesystem": StoreFilesystemForm,
    "s3": StoreS3Form,
    "gcs": StoreGcsForm,
    "azure": StoreAzureForm,
}
