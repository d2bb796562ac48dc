"""From an archive's section of the configuration to the settings of its store."""

from mirrorlake.config.resolved import ArchiveDestination, StoreAzure, StoreFilesystem, StoreGcs, StoreS3
from mirrorlake.stores.settings import AzureSettings, FilesystemSettings, GcsSettings, S3Settings, StoreSettings


def store_settings(destination: ArchiveDestination) -> StoreSettings:
    """Returns the settings of the destination's store."""
    match destination.store:
        case StoreFilesystem(root=root, makes_root=makes_root):
            return FilesystemSettings(root=root, makes_root=makes_root)
        case StoreS3() as s3:
            return S3Settings(
                bucket=s3.bucket,
                prefix=s3.prefix,
                region=s3.region,
                endpoint=s3.endpoint,
                ca_file=s3.ca_file,
                addressing=s3.addressing,
                content_check=s3.content_check,
                profile=s3.profile,
                access_key_id=s3.access_key_id,
                secret_access_key=s3.secret_access_key,
                session_token=s3.session_token,
            )
        case StoreGcs() as gcs:
            return GcsSettings(
                bucket=gcs.bucket,
                prefix=gcs.prefix,
                endpoint=gcs.endpoint,
                ca_file=gcs.ca_file,
                service_account_key=gcs.service_account_key,
            )
        case StoreAzure() as azure:
            return AzureSettings(
                account=azure.account,
                container=azure.container,
                prefix=azure.prefix,
                endpoint=azure.endpoint,
                ca_file=azure.ca_file,
                account_key=azure.account_key,
                sas_token=azure.sas_token,
            )
