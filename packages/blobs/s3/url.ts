import { readCaFile } from '@sluice/runtime/ca-file'
import { parameterMistakes } from '@sluice/runtime/url-parameters'
import { checkPrefix } from '../rules.ts'

const parameters = ['region', 'endpoint', 'ca']
/** The region in requests to servers other than Amazon's, if the URL names none. These servers ignore it. */
const regionOfEndpoints = 'us-east-1'

/** The parts of an `s3:` URL. */
export interface S3Address {
  bucket: string
  /** Empty, or ends with a slash. */
  prefix: string
  region: string
  /** The URL of a server other than Amazon's. Requests to it contain the bucket in the path. */
  endpoint: string | undefined
  /** PEM certificates to trust instead of Node's. */
  ca?: string
}

/**
 * Reads `s3://<bucket>[/<prefix>]?region=<region>[&endpoint=http[s]://host[:port]][&ca=<PEM file>]`. With an endpoint,
 * the region is optional. Several installations can share a bucket if each has its own prefix. Throws one Error that
 * names every mistake.
 */
export function parseS3Url(text: string): S3Address {
  if (!text.startsWith('s3://') || !URL.canParse(text)) {
    throw new Error('SLUICE_BLOBS_URL: expected s3://bucket/prefix?region=eu-central-1')
  }
  const { hostname, port, username, password, pathname, searchParams, hash } = new URL(text)
  const mistakes: string[] = []
  // The message quotes neither of them, because they may be credentials.
  if (username !== '' || password !== '') {
    mistakes.push('credentials belong in SLUICE_S3_ACCESS_KEY_ID and SLUICE_S3_SECRET_ACCESS_KEY')
  }
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(hostname) || port !== '') {
    mistakes.push('the bucket has 3 to 63 lower-case letters, digits, "." and "-"')
  }
  if (hash !== '') mistakes.push('"#" has no meaning here')
  mistakes.push(...parameterMistakes(searchParams, parameters))
  const endpoint = searchParams.get('endpoint')
  if (endpoint !== null) checkEndpoint(endpoint, mistakes)
  const address: S3Address = {
    bucket: hostname,
    prefix: readPrefix(pathname, mistakes),
    region: searchParams.get('region') ?? regionOfEndpoints,
    endpoint: endpoint ?? undefined,
    ...readCa(searchParams.get('ca'), endpoint, mistakes),
  }
  if (endpoint === null && !searchParams.has('region')) mistakes.push('the region is missing: ?region=eu-central-1')
  if (!/^[a-z0-9-]+$/.test(address.region)) mistakes.push('the region is made of lower-case letters, digits and "-"')
  if (mistakes.length > 0) throw new Error(`SLUICE_BLOBS_URL: ${mistakes.join('; ')}`)
  return address
}

function readCa(file: string | null, endpoint: string | null, mistakes: string[]): { ca?: string } {
  if (file !== null && endpoint?.startsWith('http:') === true) mistakes.push('"ca" needs an endpoint of https:')
  const ca = readCaFile(file, mistakes)?.ca
  return ca === undefined ? {} : { ca }
}

/** The http(s) address of `name` below the prefix of an `s3:` URL, in the form that other programs need. */
export function httpUrlOf({ bucket, prefix, region, endpoint }: S3Address, name: string): string {
  const server =
    endpoint === undefined ? `https://${bucket}.s3.${region}.amazonaws.com` : `${new URL(endpoint).origin}/${bucket}`
  return `${server}/${prefix}${name}`
}

function checkEndpoint(text: string, mistakes: string[]): void {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) mistakes.push('"endpoint" is not http[s]://host[:port]')
  else if (url.username !== '' || url.password !== '') mistakes.push('"endpoint" takes no credentials')
  else if (url.pathname !== '/' || url.search !== '' || url.hash !== '') mistakes.push('"endpoint" ends after the port')
}

function readPrefix(pathname: string, mistakes: string[]): string {
  const path = pathname.replace(/^\//, '').replace(/\/$/, '')
  if (path === '') return ''
  try {
    checkPrefix(path)
  } catch {
    mistakes.push('the prefix is made of letters, digits, ".", "_" and "-" between slashes')
  }
  return `${path}/`
}
