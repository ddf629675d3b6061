import type { KeyResource } from '@sluice/contracts/keys'
import { serverNow } from '../../api/client.ts'
import { Status } from '../../ui/states.tsx'
import { Until, useNow } from '../../ui/time.tsx'
import { texts } from './messages.ts'
import { stateOf, tickMsOf } from './presets.ts'

/** Whether a key works, and for how long: the countdown of one that was rotated. */
export function KeyState({ apiKey }: { apiKey: KeyResource }) {
  const state = stateOf(apiKey, useNow(tickMsOf(apiKey, serverNow())))
  if (state === 'active') return <Status kind="good">{texts.active}</Status>
  if (state !== 'expiring' || apiKey.expires_at === null) {
    return <Status kind="neutral">{state === 'revoked' ? texts.revoked : texts.expired}</Status>
  }
  return (
    <Status kind="warn">
      {texts.expiresIn} <Until ms={apiKey.expires_at} />
    </Status>
  )
}
