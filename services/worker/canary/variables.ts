import { eventLimits } from '@sluice/contracts/event-limits'
import { isOrigin } from '@sluice/runtime/origin'
import { optionalSecretVariable, optionalVariable } from '@sluice/runtime/variables'
import type { CanaryOptions } from './canary-unit.ts'
import { gatewaySender } from './gateway-sender.ts'

const siteDefault = 'canary'

/** Variables of the canary, which is off without them (docs/operations.md#canary). */
export const canaryVariables = {
  SLUICE_CANARY_COLLECT_URL: {
    ...optionalVariable(
      'Address at which producers of events reach the gateways, e.g. https://collect.example: a worker sends an event to it every 10 s and checks that the event is stored.',
      (url) => {
        if (!isOrigin(url)) throw new Error('must be an origin, e.g. https://collect.example, without a path')
      },
    ),
    pairedWith: 'SLUICE_CANARY_API_KEY',
  },
  SLUICE_CANARY_API_KEY: optionalSecretVariable(
    'API key of the canary, with the scope `events:write`, bound to its site.',
    (key) => {
      if (!/^[!-~]+$/.test(key)) throw new Error('holds characters other than visible ASCII')
    },
  ),
  SLUICE_CANARY_SITE: optionalVariable(`Site that only the canary uses. Default: \`${siteDefault}\`.`, (site) => {
    if (!new RegExp(`^.{1,${eventLimits.siteIdLengthMax}}$`, 'u').test(site))
      throw new Error(`must have at most ${eventLimits.siteIdLengthMax} characters`)
  }),
}

export interface CanaryConfig {
  SLUICE_CANARY_COLLECT_URL?: string | undefined
  SLUICE_CANARY_API_KEY?: string | undefined
  SLUICE_CANARY_SITE?: string | undefined
}

/** The options of the canary; undefined when it is off. */
export function canaryOf(config: CanaryConfig): CanaryOptions | undefined {
  const { SLUICE_CANARY_COLLECT_URL: url, SLUICE_CANARY_API_KEY: key, SLUICE_CANARY_SITE: site } = config
  if (url === undefined || key === undefined) return undefined
  return { siteId: site ?? siteDefault, sender: gatewaySender(url, key) }
}
