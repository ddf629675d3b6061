import joi from 'joi'
import type { Variable } from './config.ts'

/** The names that OpenTelemetry gives its samplers. */
const samplerNames = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const

export type SamplerName = (typeof samplerNames)[number]

/** Environment variables of OpenTelemetry that every service reads. */
export const tracingVariables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: joi.string().uri({ scheme: ['http', 'https'] }),
    check: refusePassword,
    description:
      'Address of an OpenTelemetry collector, e.g. http://localhost:4318, to which spans are sent by OTLP over HTTP as JSON; `/v1/traces` is added. Tracing is off without it.',
    optional: true,
  },
  OTEL_SERVICE_NAME: {
    schema: joi.string(),
    description: 'Name of the service in traces. Default: `sluice-<service>`, e.g. `sluice-gateway`.',
    optional: true,
  },
  OTEL_TRACES_SAMPLER: {
    schema: joi
      .string<SamplerName>()
      .valid(...samplerNames)
      .required(),
    description: `Which traces are sampled: ${samplerNames.map((name) => `\`${name}\``).join(', ')}.`,
    default: 'parentbased_always_on',
  },
  OTEL_TRACES_SAMPLER_ARG: {
    schema: joi.number().min(0).max(1).required(),
    description: 'Share of the traces that the samplers with `traceidratio` sample, from 0 to 1.',
    default: '1',
  },
} as const satisfies Readonly<Record<string, Variable<unknown>>>

/** Error messages print the value, and the exporter would not send the password. */
function refusePassword(endpoint: string): void {
  const { username, password } = new URL(endpoint)
  if (username !== '' || password !== '')
    throw new Error('must hold no user and no password: set OTEL_EXPORTER_OTLP_HEADERS instead')
}
