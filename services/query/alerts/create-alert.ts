import { requireWritableSite } from '@sluice/access/require-writable-site'
import type { SiteLookup } from '@sluice/access/sites'
import { operations } from '@sluice/api/operations'
import { alertDefaults, type AlertSettings, type CreateAlertBody } from '@sluice/contracts/alerts'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import { newId } from '@sluice/runtime/ids'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { newSecret } from '../webhooks/new-secret.ts'
import type { AlertDeps } from './alert-deps.ts'
import { toAlertResource } from './alert-resource.ts'
import { encryptAlertTarget } from './alert-target.ts'
import { requireValidCondition, requireValidConfig } from './require-valid-fields.ts'

/**
 * POST /api/v1/alerts: makes a rule. If it posts to a webhook and the body has no secret, one is generated, which only
 * this response shows. Throws 409 for a site that has as many rules as it may, and the errors of `checkTarget` and
 * `requireWritableSite`.
 */
export function createAlertRoute({
  sites,
  alertRules,
  secrets,
  checkTarget,
  canSendEmail,
  clock,
}: AlertDeps & { sites: Pick<SiteLookup, 'findOrRegister'> }): Route {
  return handle(operations.createAlert, async ({ body, credential, signal, log }) => {
    const { site_id: siteId, notification_type: type, notification_config: config } = body
    log({ site_id: siteId, metric: body.condition.metric })
    requireValidCondition(body.condition)
    requireValidConfig(type, config, { canSendEmail })
    if (config.url !== undefined) await checkTarget(config.url, 'notification_config.url')
    await requireWritableSite(sites, { credential, signal }, siteId)
    const generated = type === 'webhook' && config.secret === undefined ? { secret: newSecret() } : {}
    const newRule = {
      ruleId: newId('alr'),
      siteId,
      environment: credential.environment,
      keyId: credential.keyId,
      settings: toSettings(body),
      channel: config.channel ?? null,
      target: encryptAlertTarget(secrets, type, { ...config, ...generated }),
    }
    const rule = await retryUnknownOutcome(() => alertRules.create(newRule, clock.now()))
    log({ rule_id: rule.ruleId })
    const resource = toAlertResource(rule, secrets)
    return { ...resource, notification_config: { ...resource.notification_config, ...generated } }
  })
}

function toSettings(body: CreateAlertBody): AlertSettings {
  const { name, description = null, condition, enabled = true } = body
  const { for: duration, cooldown, no_data } = { ...alertDefaults, ...body }
  return { name, description, condition, for: duration, cooldown, no_data, enabled }
}
