import { listVariable, optionalSecretVariable, optionalVariable } from '@sluice/runtime/variables'
import { parseNetwork } from './address-rules.ts'
import type { OutboundOptions } from './outbound.ts'

/**
 * The targets that webhooks may be sent to. The query service, which checks URLs, and the worker, which sends, need
 * them.
 */
export const webhookTargets = {
  SLUICE_WEBHOOK_ALLOWED_NETWORKS: listVariable(
    'Private networks to which webhooks may be sent: CIDR blocks, separated by commas, e.g. 10.1.0.0/16,fd00::/8. On a host without IPv4, add the prefix of its NAT64, such as 64:ff9b::/96; otherwise receivers that have only IPv4 can’t be reached. Private IPv4 addresses behind 64:ff9b::/96 remain refused unless their network is listed; any other prefix also allows the private IPv4 addresses behind it.',
    (networks) => networks.map(parseNetwork),
  ),
  SLUICE_WEBHOOK_REFUSED_NETWORKS: listVariable(
    'Networks to which webhooks may not be sent although their addresses are public, as SLUICE_WEBHOOK_ALLOWED_NETWORKS, which has precedence: the global IPv6 addresses of your own hosts, pods and services, and the prefix of a NAT64 other than 64:ff9b::/96.',
    (networks) => networks.map(parseNetwork),
  ),
  SLUICE_WEBHOOK_PROXY: optionalSecretVariable(
    'Proxy for all webhooks, http://[user:password@]host:port, such as Smokescreen. It must allow CONNECT. The proxy, not Sluice, then decides which host names are allowed; Sluice still checks URLs that contain an IP address.',
    requireProxyUrl,
  ),
}

/** The server for e-mail. The worker sends by it, and without it the query service refuses rules with e-mail. */
export const smtp = {
  SLUICE_SMTP_URL: {
    ...optionalSecretVariable(
      'SMTP server for e-mail of alert rules: smtp://user:password@host:587 (STARTTLS if offered), or smtps://…:465.',
      requireSmtpUrl,
    ),
    pairedWith: 'SLUICE_SMTP_FROM',
  },
  SLUICE_SMTP_FROM: optionalVariable(
    'Sender of e-mail: alerts@example.com, or Sluice <alerts@example.com>.',
    requireSender,
  ),
}

interface OutboundConfig {
  SLUICE_WEBHOOK_ALLOWED_NETWORKS: readonly string[]
  SLUICE_WEBHOOK_REFUSED_NETWORKS: readonly string[]
  SLUICE_WEBHOOK_PROXY?: string | undefined
  SLUICE_SMTP_URL?: string | undefined
  SLUICE_SMTP_FROM?: string | undefined
}

/** The loopback networks of a machine. Standalone allows them while it only listens on loopback. */
const loopbackNetworks = ['127.0.0.0/8', '::1/128']

/**
 * The options of openOutbound and checkTarget from a configuration. With `allowsLoopback`, the process only listens on
 * loopback, and may send to it: a first try on a developer's machine then works.
 */
export function outboundOptionsOf(config: OutboundConfig, allowsLoopback = false): OutboundOptions {
  const { SLUICE_SMTP_URL: url, SLUICE_SMTP_FROM: from } = config
  return {
    allowedNetworks: [...config.SLUICE_WEBHOOK_ALLOWED_NETWORKS, ...(allowsLoopback ? loopbackNetworks : [])],
    refusedNetworks: config.SLUICE_WEBHOOK_REFUSED_NETWORKS,
    proxy: config.SLUICE_WEBHOOK_PROXY,
    smtp: url === undefined || from === undefined ? undefined : { url, from },
  }
}

function requireProxyUrl(text: string): void {
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new Error('must be a URL that begins with http:// or https://')
  const { username, password } = new URL(text)
  for (const [part, encoded] of Object.entries({ user: username, password })) {
    if (!isPercentEncoded(encoded)) throw new Error(`must percent-encode % in its ${part} as %25`)
  }
}

/** Whether a part of a URL can be decoded. If it can't, each connection through the proxy would fail. */
function isPercentEncoded(part: string): boolean {
  try {
    decodeURIComponent(part)
    return true
  } catch {
    return false
  }
}

function requireSmtpUrl(text: string): void {
  if (!/^smtps?:\/\//.test(text) || !URL.canParse(text) || new URL(text).hostname === '')
    throw new Error('must be a URL that begins with smtp:// or smtps://')
}

function requireSender(text: string): void {
  if (!/^(?:[^<>\r\n]+ <[^\s<>@]+@[^\s<>@]+>|[^\s<>@]+@[^\s<>@]+)$/.test(text))
    throw new Error('must be an e-mail address, with or without a name before it')
}
