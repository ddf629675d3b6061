import { optionalSecretVariable, urlVariable } from '@sluice/runtime/variables'
import type { S3Credentials } from './s3/client.ts'
import { parseS3Url } from './s3/url.ts'

const description =
  'The store of files for imports and exports: s3://bucket[/prefix]?region=eu-central-1[&endpoint=https://host:port][&ca=<PEM file>], or file:<folder> that all processes share. Installations that share a bucket need different prefixes, because workers remove files of exports and imports that they do not know.'
const schemes = ['s3', 'file']

function check(url: string): void {
  if (url.startsWith('s3:')) parseS3Url(url)
}

/** SLUICE_BLOBS_URL of a service that runs in its own process. */
export const blobsUrl = urlVariable({ schemes, description, check })

/** SLUICE_BLOBS_URL when a folder in the data folder is the default. */
export const blobsUrlOrEmbedded = {
  ...urlVariable({ schemes, description: `${description} Default: file:<SLUICE_DATA_DIR>/blobs.`, check }),
  optional: true as const,
}

/**
 * Credentials for an `s3:` store. They are not part of the URL, because secret keys of S3 contain "/" and "+", which
 * would have to be percent-encoded there. Most installations in a cloud need neither variable: without both, the AWS
 * SDK uses the machine's credentials (AWS_… variables, ~/.aws, roles of EKS, ECS and EC2), and renews them.
 */
export const s3Credentials = {
  SLUICE_S3_ACCESS_KEY_ID: {
    ...optionalSecretVariable(
      'Access key of an s3: store. Without it, the credentials of the machine are used (AWS_… variables, roles).',
      requireVisible,
    ),
    pairedWith: 'SLUICE_S3_SECRET_ACCESS_KEY',
  },
  SLUICE_S3_SECRET_ACCESS_KEY: optionalSecretVariable('Secret of SLUICE_S3_ACCESS_KEY_ID.', requireVisible),
}

interface S3Config {
  SLUICE_S3_ACCESS_KEY_ID?: string | undefined
  SLUICE_S3_SECRET_ACCESS_KEY?: string | undefined
}

/** The credentials of a configuration; undefined when those of the machine are used. */
export function s3CredentialsOf(config: S3Config): S3Credentials | undefined {
  const { SLUICE_S3_ACCESS_KEY_ID: accessKeyId, SLUICE_S3_SECRET_ACCESS_KEY: secretAccessKey } = config
  return accessKeyId === undefined || secretAccessKey === undefined ? undefined : { accessKeyId, secretAccessKey }
}

/** A line break that was copied with the text would make every signature wrong. */
function requireVisible(text: string): void {
  if (!/^[!-~]+$/.test(text)) throw new Error('holds characters other than visible ASCII')
}
