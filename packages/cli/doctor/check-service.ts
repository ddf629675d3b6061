import { notSluice, parseEnvelope } from '../client.ts'
import { type AddressSetting, connectionFailure } from '../connection-failure.ts'
import { formatDuration } from '../output/format.ts'
import { safeText } from '../output/safe-text.ts'
import { failed, type Finding, ok, warning } from './check.ts'

const timeoutMs = 10_000
const clockWarningMs = 10_000
/** Beyond this, ranges and sessions of statistics are visibly wrong. */
const clockFailureMs = 5 * 60_000

interface Readiness {
  status: string
  missing: Record<string, string>
  degraded: Record<string, string>
  warnings: string[]
}

/**
 * Asks a service for its readiness and its clock. `name`: what it is called in the findings. `setting` names its address
 * `url`.
 */
export async function* checkService(url: string, name: string, setting: AddressSetting): AsyncGenerator<Finding> {
  let response: Response
  let text: string
  const begin = Date.now()
  try {
    response = await fetch(`${url}/readyz`, { redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) })
    text = await response.text()
  } catch (error) {
    yield failed(name, 'no answer', connectionFailure(error, url, setting).message)
    return
  }
  const end = Date.now()
  const envelope = parseEnvelope(text)
  if (!envelope || !isReadiness(envelope.data)) {
    const [reason = '', advice = ''] = notSluice(url, response, setting).message.split(/: (?=s)/)
    yield failed(name, reason, `${advice.charAt(0).toUpperCase()}${advice.slice(1)}`)
    return
  }
  yield readinessFinding(name, envelope.data, await readVersion(url))
  yield clockFinding(envelope.timestamp - (begin + end) / 2)
}

function readinessFinding(name: string, { status, missing, degraded, warnings }: Readiness, version: string): Finding {
  const list = (parts: Record<string, string>): string =>
    Object.entries(parts)
      .map(([part, reason]) => `${part} (${reason})`)
      .join(', ')
  if (status !== 'ready') {
    return failed(
      name,
      safeText(`not ready, missing: ${list(missing)}`),
      'Start what is missing, or correct its address or password: docs/runbooks.md#not-ready says more.',
    )
  }
  if (Object.keys(degraded).length > 0) {
    return warning(
      name,
      safeText(`ready, but without: ${list(degraded)}`),
      'A part of the service does without it. docs/runbooks.md#engine-away says how to end this.',
    )
  }
  const [first] = warnings
  if (first !== undefined) return warning(name, `ready${version}`, safeText(first))
  return ok(name, `ready${version}`)
}

/** `skewMs`: how far the server is ahead of this machine. */
function clockFinding(skewMs: number): Finding {
  const size = Math.abs(skewMs)
  const detail = `this machine is ${formatDuration(size)} ${skewMs > 0 ? 'behind' : 'ahead of'} the server`
  const advice = 'Set the clock of this machine, or of the server, by NTP: events get wrong times.'
  if (size > clockFailureMs) return failed('clock', detail, advice)
  if (size > clockWarningMs) return warning('clock', detail, advice)
  return ok('clock', size < 1_000 ? 'within a second of the server' : detail)
}

/** `, version 1.2.3`; only the query service says it. */
async function readVersion(url: string): Promise<string> {
  try {
    const response = await fetch(`${url}/openapi.json`, { redirect: 'manual', signal: AbortSignal.timeout(timeoutMs) })
    const document: unknown = await response.json()
    const info = isObject(document) && isObject(document.info) ? document.info : {}
    return typeof info.version === 'string' ? `, version ${safeText(info.version)}` : ''
  } catch {
    return ''
  }
}

function isReadiness(data: unknown): data is Readiness {
  return (
    isObject(data) &&
    typeof data.status === 'string' &&
    isObject(data.missing) &&
    isObject(data.degraded) &&
    Array.isArray(data.warnings)
  )
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
