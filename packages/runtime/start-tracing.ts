import { context, diag, DiagLogLevel, propagation, trace } from '@opentelemetry/api'
import type * as sdkModule from '@opentelemetry/sdk-trace'
import type { Sampler } from '@opentelemetry/sdk-trace'
import { withDeadline } from './deadline.ts'
import { internalMessage } from './errors.ts'
import { logThrottle } from './log-throttle.ts'
import type { Logger } from './logger.ts'
import type { Component } from './supervisor.ts'
import { setTracer } from './tracing.ts'
import type { SamplerName } from './tracing-variables.ts'

/** The configuration of `tracingVariables`. */
export interface TracingConfig {
  OTEL_EXPORTER_OTLP_ENDPOINT?: string | undefined
  OTEL_SERVICE_NAME?: string | undefined
  OTEL_TRACES_SAMPLER?: SamplerName
  OTEL_TRACES_SAMPLER_ARG?: number
}

/** Tracing that was started. */
export interface Tracing {
  /** Logs failures of the export, each kind at most once a minute. */
  logTo(logger: Pick<Logger, 'warn'>): void
  /** Sends the remaining spans when it stops. */
  component: Component
}

/** How long stopping waits for the collector; the exporter itself would wait for 10 s. */
const shutdownTimeoutMs = 1_000
const warningIntervalMs = 60_000

/**
 * Starts tracing if the configuration names an endpoint; undefined otherwise. Call it once in a process, before the
 * logger is created: its lines then have the `trace_id`.
 */
export async function startTracing(
  config: TracingConfig,
  { service, version }: { service: string; version: string },
): Promise<Tracing | undefined> {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_SERVICE_NAME: serviceName } = config
  if (endpoint === undefined) return undefined
  const [sdk, { OTLPTraceExporter }, resources, { AsyncLocalStorageContextManager }, { W3CTraceContextPropagator }] =
    await Promise.all([
      import('@opentelemetry/sdk-trace'),
      import('@opentelemetry/exporter-trace-otlp-http'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/context-async-hooks'),
      import('@opentelemetry/core'),
    ])
  const { resourceFromAttributes } = resources
  const resource = resources
    .defaultResource()
    .merge(resourceFromAttributes({ 'service.name': `sluice-${service}`, 'service.version': version }))
    // OTEL_RESOURCE_ATTRIBUTES.
    .merge(resources.detectResources({ detectors: [resources.resourceAttributesEnvDetector] }))
    .merge(resourceFromAttributes(serviceName === undefined ? {} : { 'service.name': serviceName }))
  const exporter = new OTLPTraceExporter({ url: `${endpoint.replace(/\/+$/, '')}/v1/traces` })
  const provider = new sdk.TracerProvider({
    resource,
    sampler: samplerOf(sdk, config),
    spanProcessors: [new sdk.BatchSpanProcessor({ exporter })],
  })
  context.setGlobalContextManager(new AsyncLocalStorageContextManager())
  propagation.setGlobalPropagator(new W3CTraceContextPropagator())
  trace.setGlobalTracerProvider(provider)
  setTracer(provider.getTracer('sluice', version))
  return { logTo, component: { name: 'tracing', stop: () => shutDown(provider) } }
}

/** Sends the remaining spans. A collector that does not answer is logged, and is no error. */
async function shutDown(provider: { shutdown(): Promise<void> }): Promise<void> {
  try {
    await withDeadline(
      provider.shutdown(),
      shutdownTimeoutMs,
      () => new Error(`no answer within ${shutdownTimeoutMs} ms`),
    )
  } catch (error) {
    diag.warn('the last spans were not sent', internalMessage(error))
  }
}

type Sdk = Pick<
  typeof sdkModule,
  'AlwaysOffSampler' | 'AlwaysOnSampler' | 'ParentBasedSampler' | 'TraceIdRatioBasedSampler'
>

function samplerOf(
  { AlwaysOffSampler, AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler }: Sdk,
  { OTEL_TRACES_SAMPLER: name = 'parentbased_always_on', OTEL_TRACES_SAMPLER_ARG: share = 1 }: TracingConfig,
): Sampler {
  const samplers: Readonly<Record<SamplerName, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(share),
    parentbased_always_on: () => new ParentBasedSampler({ root: samplers.always_on() }),
    parentbased_always_off: () => new ParentBasedSampler({ root: samplers.always_off() }),
    parentbased_traceidratio: () => new ParentBasedSampler({ root: samplers.traceidratio() }),
  }
  return samplers[name]()
}

function logTo(logger: Pick<Logger, 'warn'>): void {
  const isDue = logThrottle(warningIntervalMs)
  const warn = (message: string, ...details: unknown[]): void => {
    if (isDue(message)) logger.warn({ details: details.map(String).join(' ') }, `tracing: ${message}`)
  }
  const ignore = (): void => undefined
  diag.setLogger({ error: warn, warn, info: ignore, debug: ignore, verbose: ignore }, { logLevel: DiagLogLevel.WARN })
}
