import { keyEnvironment } from '@sluice/contracts/api-key'
import joi from 'joi'
import type { Variable } from './config.ts'
import { folderOf } from './file-url.ts'

/** Keeps the value's type where an object literal of variables is written. */
function variable<V extends Variable<unknown>>(definition: V): V {
  return definition
}

/** Typed here: inside `variable()` the compiler would infer `unknown`. */
const anyText: joi.StringSchema = joi.string()
const port = joi
  .number()
  .integer()
  .min(0)
  .max(65_535)
  .required()
  // joi takes 1e3 and 0x50 for numbers too.
  .custom((value: number, helpers) => (/^\d+$/.test(String(helpers.original)) ? value : helpers.error('number.base')))

/** A URL whose scheme is one of `schemes`. Kafka's, which are no URLs to URL, are checked by their adapter. */
function engineUrl(schemes: readonly string[]): joi.StringSchema {
  return joi
    .string()
    .custom((text: string) => {
      if (!schemes.some((scheme) => text.startsWith(`${scheme}:`))) {
        throw new TypeError(`must start with ${schemes.map((scheme) => `${scheme}:`).join(' or ')}`)
      }
      if (text.startsWith('file:')) folderOf(text)
      else if (text.startsWith('memory:')) checkMemoryUrl(text)
      else if (!text.startsWith('kafka:')) checkNetworkUrl(text)
      return text
    })
    .messages({ 'any.custom': '{{#error.message}}' })
}

function checkMemoryUrl(text: string): void {
  if (text !== 'memory:') throw new TypeError('must be memory: and no more')
}

function checkNetworkUrl(text: string): void {
  if (!URL.canParse(text)) throw new TypeError('is not a URL: host, port or percent-encoding are wrong')
  const { hostname, protocol, pathname } = new URL(text)
  if (hostname === '') throw new TypeError('names no host')
  if (protocol.startsWith('http') && !/^\/\w*$/.test(pathname)) {
    throw new TypeError('must end in a database name of letters, digits and underscores')
  }
  if (protocol.startsWith('redis') && !/^\/?\d{0,5}$/.test(pathname)) {
    throw new TypeError('must end in the number of a database')
  }
}

/** What is wrong with two ports that are each right; in words for the list of mistakes. */
export function portMistakes(config: { SLUICE_PORT: number; SLUICE_METRICS_PORT?: number | undefined }): string[] {
  const { SLUICE_PORT: port, SLUICE_METRICS_PORT: metricsPort } = config
  if (metricsPort === undefined && port > 64_535) {
    return [`SLUICE_METRICS_PORT is required: SLUICE_PORT + 1000 is ${port + 1_000}, which is no port`]
  }
  if (port !== 0 && metricsPort === port) return [`SLUICE_METRICS_PORT must differ from SLUICE_PORT (both are ${port})`]
  return []
}

/** Where a service listens. `defaultPort` is its port when it runs alone. */
export function listenVariables(defaultPort: number, defaultHost: string) {
  return {
    SLUICE_HOST: variable({
      schema: anyText.required(),
      description: 'Address to listen on.',
      default: defaultHost,
    }),
    SLUICE_PORT: variable({
      schema: port,
      description: 'Port of the HTTP interface.',
      default: String(defaultPort),
    }),
    SLUICE_METRICS_PORT: variable({
      schema: port,
      description:
        'Port of /metrics (Prometheus), apart so that it is not public by accident. Default: SLUICE_PORT + 1000.',
      optional: true as const,
    }),
    SLUICE_LOG_LEVEL: variable({
      schema: joi.string<'debug' | 'info' | 'warn' | 'error'>().valid('debug', 'info', 'warn', 'error').required(),
      description: 'Least severe level that is logged; info holds one line per request and per batch.',
      default: 'info',
    }),
  }
}

/** The engines of a service that runs alone. */
export const logUrl = variable({
  schema: engineUrl(['kafka']),
  description: 'The event log: kafka://[user:password@]host:9092[,host:9092]/topic[?tls=true&sasl=scram-sha-512].',
  secret: true as const,
})

export const clickHouseUrl = variable({
  schema: engineUrl(['http', 'https']),
  description: 'ClickHouse: http(s)://user:password@host:8123/database.',
  secret: true as const,
})

export const postgresUrl = variable({
  schema: engineUrl(['postgres', 'postgresql']),
  description: 'Postgres: postgres://user:password@host:5432/database.',
  secret: true as const,
})

export const redisUrl = variable({
  schema: engineUrl(['redis', 'rediss']),
  description:
    'Redis, for rate limits, sessions and idempotent answers: redis(s)://[[user]:password@]host:6379[/database][?ca=<PEM file>&prefix=sluice:].',
  secret: true as const,
})

export const adminKey = variable({
  schema: anyText,
  check: (key: string) => {
    if (keyEnvironment(key) === undefined) throw new Error('is not a key: prefix, length or checksum are wrong')
  },
  description: 'First admin key (npm run admin-key makes one); taken over at the start if it is not known yet.',
  secret: true as const,
  optional: true as const,
})

export const autoRegisterSites = variable({
  schema: joi.boolean().required(),
  description:
    'true: the first event of a site registers it. false: only POST /api/v1/sites and the site_ids of keys do.',
  default: 'true',
})

/** The engines of standalone: embedded ones in the data folder unless a URL says otherwise. */
export const standaloneEngines = {
  SLUICE_DATA_DIR: variable({
    schema: anyText.required(),
    description: 'Folder of the embedded engines. One process at a time may use it.',
    default: 'data',
  }),
  SLUICE_LOG_URL: variable({
    ...logUrl,
    schema: engineUrl(['kafka', 'file']),
    description: `${logUrl.description} Default: file:<SLUICE_DATA_DIR>/log.`,
    optional: true as const,
  }),
  SLUICE_CLICKHOUSE_URL: variable({
    ...clickHouseUrl,
    schema: engineUrl(['http', 'https', 'file']),
    description: `${clickHouseUrl.description} Default: file:<SLUICE_DATA_DIR>/clickhouse.`,
    optional: true as const,
  }),
  SLUICE_POSTGRES_URL: variable({
    ...postgresUrl,
    schema: engineUrl(['postgres', 'postgresql', 'file']),
    description: `${postgresUrl.description} Default: file:<SLUICE_DATA_DIR>/postgres.`,
    optional: true as const,
  }),
  SLUICE_REDIS_URL: variable({
    ...redisUrl,
    schema: engineUrl(['redis', 'rediss', 'memory']),
    description: `${redisUrl.description} memory: keeps them in this process, until it ends.`,
    default: 'memory:',
  }),
}
