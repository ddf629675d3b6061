import { addResources } from './resources.ts'
import { type Rig, startRig } from './rig.ts'
import { seededEvents } from './seed.ts'

/** A rig whose site has events and one of each resource. */
export async function startSeededRig(siteId: string): Promise<Rig> {
  const rig = await startRig()
  await rig.send(seededEvents({ siteId, now: Date.now() }))
  await addResources(rig, siteId)
  return rig
}
