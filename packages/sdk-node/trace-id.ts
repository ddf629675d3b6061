import { createRequire } from 'node:module'

/** The part of `@opentelemetry/api` that is used. */
interface OpenTelemetry {
  trace: { getActiveSpan(): { spanContext(): { traceId: string } } | undefined }
  isValidTraceId(traceId: string): boolean
}

/** Returns the trace id of the active span; always undefined when `@opentelemetry/api` is not installed. */
export function traceIdReader(): () => string | undefined {
  const api = loadOpenTelemetry()
  if (!api) return () => undefined
  return () => {
    const traceId = api.trace.getActiveSpan()?.spanContext().traceId
    return traceId !== undefined && api.isValidTraceId(traceId) ? traceId : undefined
  }
}

function loadOpenTelemetry(): OpenTelemetry | undefined {
  try {
    // `require`, because the package belongs to the application and may be absent.
    return createRequire(import.meta.url)('@opentelemetry/api') as OpenTelemetry
  } catch {
    return undefined
  }
}
