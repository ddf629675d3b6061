import type { AlertCondition, AlertSettings, NotificationType } from '@sluice/contracts/alerts'
import type { Environment } from '@sluice/contracts/scopes'
import type { AlertRule } from '@sluice/postgres/alert-records'
import { alertRuleStore } from '@sluice/postgres/alert-rules'
import { encryptTarget } from '@sluice/postgres/endpoints'
import type { Postgres } from '@sluice/postgres/open'
import { newId } from '@sluice/runtime/ids'
import { testSecrets } from './webhooks.ts'

/** A rule that fires when more than 10 events were sent in five minutes, unless its parts say otherwise. */
export interface RuleParts extends Partial<Omit<AlertSettings, 'condition'>> {
  siteId?: string
  environment?: Environment
  condition?: Partial<AlertCondition>
  type?: NotificationType
  /** A URL, or for e-mail a JSON list of addresses. */
  target?: string
  channel?: string | null
  at?: number
}

/** Stores a rule as the query service does. */
export async function addRule(postgres: Postgres, parts: RuleParts = {}): Promise<AlertRule> {
  const { siteId = 'shop', environment = 'prod', condition, type = 'webhook', channel = null, ...others } = parts
  const { target = 'http://127.0.0.1:9/rule', at = Date.now(), ...settings } = others
  return alertRuleStore(postgres).create(
    {
      ruleId: newId('alr'),
      siteId,
      environment,
      keyId: 'key_1',
      settings: {
        name: 'Many events',
        description: null,
        for: '0s',
        cooldown: '0s',
        no_data: 'zero',
        enabled: true,
        ...settings,
        condition: {
          metric: 'event_count',
          operator: 'greater_than',
          threshold: 10,
          window: '5m',
          ...condition,
        },
      },
      channel,
      target: { type, ...encryptTarget(testSecrets, type, target), encryptedSecret: null },
    },
    at,
  )
}
