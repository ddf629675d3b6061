import Joi from 'joi'
import type { Variable } from './config.ts'

/** Keeps the value's type where an object literal of variables is written. */
function variable<V extends Variable<unknown>>(definition: V): V {
  return definition
}

const port = Joi.number<number>().integer().min(0).max(65_535).required()

/** A URL whose scheme is one of `schemes`; the adapter that opens it checks the rest. */
function engineUrl(schemes: readonly string[]): Joi.StringSchema<string> {
  return Joi.string<string>().custom((text: string) => {
    if (!schemes.some((scheme) => text.startsWith(`${scheme}:`))) {
      throw new TypeError(`must start with ${schemes.map((scheme) => `${scheme}:`).join(' or ')}`)
    }
    return text
  }).messages({ 'any.custom': '{{#error.message}}' })
}

/** Where a service listens. `defaultPort` is its port when it runs alone. */
export function listenVariables(defaultPort: number, defaultHost: string) {
  return {
    SLUICE_HOST: variable({
      schema: Joi.string<string>().required(),
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
      description: 'Port of /metrics (Prometheus), apart so that it is not public by accident. Default: SLUICE_PORT + 1000.',
      optional: true as const,
    }),
    SLUICE_LOG_LEVEL: variable({
      schema: Joi.string<'debug' | 'info' | 'warn' | 'error'>().valid('debug', 'info', 'warn', 'error').required(),
      description: 'Least severe level that is logged; info holds one line per request and per batch.',
      default: 'info',
    }),
  }
}

export const logUrl = variable({
  schema: engineUrl(['kafka', 'file']),
  description:
    'The event log: kafka://[user:password@]host:9092[,host:9092]/topic[?tls=true&sasl=scram-sha-512]. Dead letters go to <topic>.dead.',
  secret: true as const,
})

export const clickHouseUrl = variable({
  schema: engineUrl(['http', 'https', 'file']),
  description: 'ClickHouse: http(s)://user:password@host:8123/database.',
  secret: true as const,
})

export const postgresUrl = variable({
  schema: engineUrl(['postgres', 'postgresql', 'file']),
  description: 'Postgres: postgres://user:password@host:5432/database.',
  secret: true as const,
})
