import { isDeepStrictEqual } from 'node:util'
import { operations } from '@sluice/api/operations'
import type { AlertCondition, AlertSettings, NotificationConfig, UpdateAlertBody } from '@sluice/contracts/alerts'
import { handle } from '@sluice/http/handle'
import type { Route } from '@sluice/http/route'
import type { AlertRule } from '@sluice/postgres/alert-records'
import type { AlertTarget } from '@sluice/postgres/alert-rules'
import { conflict, notFound, requireFound } from '@sluice/runtime/errors'
import { requireUnchangedSite } from '../require-unchanged-site.ts'
import { retryUnknownOutcome } from '../retry-unknown-outcome.ts'
import { newSecret } from '../webhooks/new-secret.ts'
import type { AlertDeps } from './alert-deps.ts'
import { configOf, toAlertResource } from './alert-resource.ts'
import { encryptAlertTarget } from './alert-target.ts'
import { requireValidCondition, requireValidConfig } from './require-valid-fields.ts'

/**
 * PUT /api/v1/alerts/:rule_id: fields left out keep their value. Throws 404 for a missing or hidden rule, 409 when
 * somebody else changed it at the same time, and the errors of `checkTarget`.
 */
export function updateAlertRoute(deps: AlertDeps): Route {
  const { alertRules, secrets, clock } = deps
  return handle(operations.updateAlert, async ({ params, body, credential, log }) => {
    const { rule_id: ruleId } = params
    log({ rule_id: ruleId })
    const found = requireFound(await alertRules.find(ruleId, credential.siteIds), 'Alert rule')
    requireUnchangedSite(body.site_id, found.siteId)
    const settings = changedSettings(found.settings, body)
    requireValidCondition(settings.condition)
    const { target, channel, generated } = await changedTarget(found, body, deps)
    const isSame = target === undefined && channel === found.channel && isDeepStrictEqual(settings, found.settings)
    if (isSame) return toAlertResource(found, secrets)
    const changes = {
      revision: found.revision,
      settings,
      isConditionChanged: !isDeepStrictEqual(settings.condition, found.settings.condition),
      channel,
      ...(target && { target }),
    }
    const now = clock.now()
    const rule = await retryUnknownOutcome(() => alertRules.update(ruleId, credential.siteIds, changes, now))
    if (!rule) throw notFound('Alert rule')
    if (rule === 'changed') throw conflict('Alert rule was changed at the same time: send the request again')
    const resource = toAlertResource(rule, secrets)
    return { ...resource, notification_config: { ...resource.notification_config, ...generated } }
  })
}

function changedSettings(current: AlertSettings, body: UpdateAlertBody): AlertSettings {
  const { description = current.description, condition = {}, ...others } = body
  return {
    name: others.name ?? current.name,
    description: description === '' ? null : description,
    condition: changedCondition(current.condition, condition),
    for: others.for ?? current.for,
    cooldown: others.cooldown ?? current.cooldown,
    no_data: others.no_data ?? current.no_data,
    enabled: others.enabled ?? current.enabled,
  }
}

function changedCondition(current: AlertCondition, changes: NonNullable<UpdateAlertBody['condition']>): AlertCondition {
  const { event_type: eventTypeNow, filter: filterNow, ...others } = current
  const { event_type: eventType = eventTypeNow, filter = filterNow, ...changed } = changes
  return {
    ...others,
    ...changed,
    ...(typeof eventType === 'string' && { event_type: eventType }),
    ...(filter && { filter }),
  }
}

interface ChangedTarget {
  /** Absent: the stored target stays. */
  target?: AlertTarget
  channel: string | null
  /** A secret that was generated. */
  generated: Pick<NotificationConfig, 'secret'>
}

/**
 * A configuration for another type of notifications replaces the stored one. Otherwise it changes only the fields that
 * it has.
 */
async function changedTarget(
  found: AlertRule,
  { notification_type: sentType, notification_config: sent, enabled }: UpdateAlertBody,
  { secrets, checkTarget, canSendEmail }: AlertDeps,
): Promise<ChangedTarget> {
  const type = sentType ?? found.notificationType
  const isOtherType = type !== found.notificationType
  if (sent === undefined && !isOtherType && enabled !== true) return { channel: found.channel, generated: {} }
  const { channel, ...config } = { ...(isOtherType ? {} : configOf(found, secrets)), ...sent }
  requireValidConfig(type, config, { canSendEmail })
  if (sent?.url !== undefined) await checkTarget(sent.url, 'notification_config.url')
  const generated = type === 'webhook' && isOtherType && config.secret === undefined ? { secret: newSecret() } : {}
  return {
    target: encryptAlertTarget(secrets, type, { ...config, ...generated }),
    channel: channel === '' ? null : (channel ?? null),
    generated,
  }
}
