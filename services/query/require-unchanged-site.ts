import { invalidField } from '@sluice/runtime/errors'

/** Throws 400 when the body of an update names another site than the resource's own, which it may repeat. */
export function requireUnchangedSite(sent: string | undefined, own: string): void {
  if (sent !== undefined && sent !== own) throw invalidField('site_id', "can't be changed")
}
