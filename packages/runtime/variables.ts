import joi from 'joi'
import type { Variable } from './config.ts'
import { folderOf } from './folder-of.ts'
import type { LogLevel } from './logger.ts'
import { readSecretsKey } from './secret-cipher.ts'
import { tracingVariables } from './tracing-variables.ts'

/** Keeps the value's type where an object literal of variables is written. */
function variable<V extends Variable<unknown>>(definition: V): V {
  return definition
}

/** Typed here: inside `variable()` the compiler would infer `unknown`. */
const anyText: joi.StringSchema = joi.string()
const port = wholeNumber(65_535)

function wholeNumber(max: number, min = 0): joi.NumberSchema {
  return (
    joi
      .number()
      .integer()
      .min(min)
      .max(max)
      .required()
      // joi takes 1e3 and 0x50 for numbers too.
      .custom((value: number, helpers) =>
        /^\d+$/.test(String(helpers.original)) ? value : helpers.error('number.base'),
      )
  )
}

/** A variable that holds a whole number of seconds: up to an hour, unless other limits are given. */
export function secondsVariable(description: string, defaultSeconds: number, { min = 0, max = 3_600 } = {}) {
  return variable({ schema: wholeNumber(max, min), description, default: String(defaultSeconds) })
}

/**
 * A variable that holds the URL of an engine with one of the `schemes`. `checkUrl` checks a network URL and throws a
 * TypeError whose message continues the variable's name. `check` gets the text: it serves schemes that `URL` cannot
 * parse (Kafka's lists several hosts). The value is a secret, because it may hold a password.
 */
export function urlVariable({
  schemes,
  description,
  checkUrl,
  check,
}: {
  schemes: readonly string[]
  description: string
  checkUrl?: (url: URL) => void
  check?: (text: string) => unknown
}) {
  return variable({
    schema: engineUrl(schemes, checkUrl),
    description,
    secret: true as const,
    ...(check && { check }),
  })
}

function engineUrl(schemes: readonly string[], checkUrl: ((url: URL) => void) | undefined): joi.StringSchema {
  return joi
    .string()
    .custom((text: string) => {
      if (!schemes.some((scheme) => text.startsWith(`${scheme}:`))) {
        throw new TypeError(`must start with ${schemes.map((scheme) => `"${scheme}:"`).join(' or ')}`)
      }
      if (text.startsWith('file:')) folderOf(text)
      else if (text.startsWith('memory:')) requireBareMemoryUrl(text)
      else if (checkUrl) checkUrl(networkUrl(text))
      return text
    })
    .messages({ 'any.custom': '{{#error.message}}' })
}

function requireBareMemoryUrl(text: string): void {
  if (text !== 'memory:') throw new TypeError('must be memory: and no more')
}

function networkUrl(text: string): URL {
  if (!URL.canParse(text)) throw new TypeError('is not a URL: host, port or percent-encoding are wrong')
  const url = new URL(text)
  if (url.hostname === '') throw new TypeError('names no host')
  return url
}

/** SLUICE_DATA_DIR of standalone and of the commands that find its data. */
export const dataDirectory = variable({
  schema: anyText.required(),
  description: 'Folder of the embedded engines. One process at a time may use it.',
  default: 'data',
})

/** A variable that is `true` or `false`. */
export function flagVariable(description: string, defaultValue: boolean) {
  const schema = joi.boolean().required().messages({ 'boolean.base': 'must be true or false' })
  return variable({ schema, description, default: String(defaultValue) })
}

/** An optional variable that holds text; `check` throws an Error whose message continues the variable's name. */
export function optionalVariable(description: string, check: (text: string) => void = () => undefined) {
  return variable({ schema: anyText, check, description, optional: true as const })
}

/** An optional variable that holds a secret; `check` throws an Error whose message continues the variable's name. */
export function optionalSecretVariable(description: string, check: (text: string) => unknown) {
  return variable({ schema: anyText, check, description, secret: true as const, optional: true as const })
}

const secretsKeyUse = 'Encrypts the secrets of webhooks and alert rules in Postgres: 32 bytes in base64 or hex.'

/** SLUICE_SECRETS_KEY of a service that runs alone; the same for all of them. */
export const secretsKey = variable({
  schema: anyText.required(),
  check: readSecretsKey,
  description: `${secretsKeyUse} The same for query and worker; "openssl rand -base64 32" generates one.`,
  secret: true as const,
})

/** SLUICE_SECRETS_KEY where one in the data folder is the default. */
export const secretsKeyOrOwn = optionalSecretVariable(
  `${secretsKeyUse} Default: <SLUICE_DATA_DIR>/secrets.key, which the first start generates.`,
  readSecretsKey,
)

/** SLUICE_SECRETS_KEY_PREVIOUS of every process that opens stored secrets. */
export const previousSecretsKey = optionalSecretVariable(
  'The SLUICE_SECRETS_KEY before the present one, until the worker has stored everything under the present one.',
  readSecretsKey,
)

/**
 * A list of words between commas, empty without words; `check` throws an Error whose message continues the variable's
 * name.
 */
export function listVariable(
  description: string,
  check: (words: readonly string[]) => unknown,
): Variable<readonly string[]> & { default: string } {
  return {
    schema: joi.any().custom((text: string) => wordsOf(text)) as joi.Schema<readonly string[]>,
    description,
    default: '',
    check: (text) => check(wordsOf(text)),
  }
}

function wordsOf(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '')
}

/** Mistakes in the combination of two ports that are valid by themselves, as lines of ConfigError. */
export function portMistakes(config: { SLUICE_PORT: number; SLUICE_METRICS_PORT?: number | undefined }): string[] {
  const { SLUICE_PORT: port, SLUICE_METRICS_PORT: metricsPort } = config
  if (metricsPort === undefined && port > 64_535) {
    return [`SLUICE_METRICS_PORT is required, because SLUICE_PORT + 1000 = ${port + 1_000} is too high`]
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
        'Port of /metrics (Prometheus). It is separate so that metrics are not public by accident. Default: SLUICE_PORT + 1000.',
      optional: true as const,
    }),
    SLUICE_TLS_CERT: optionalVariable(
      'PEM file with the certificate for HTTPS on SLUICE_PORT, followed by those of its authorities. Without it the port speaks HTTP.',
    ),
    SLUICE_TLS_KEY: optionalVariable(
      'PEM file with the key of SLUICE_TLS_CERT, without a passphrase. Both files are read again when they change.',
    ),
    SLUICE_LOG_LEVEL: variable({
      schema: joi.string<LogLevel>().valid('debug', 'info', 'warn', 'error').required(),
      description:
        'Least severe level that is logged: debug, info, warn or error; info holds one line per request and per batch.',
      default: 'info',
    }),
    ...tracingVariables,
  }
}
