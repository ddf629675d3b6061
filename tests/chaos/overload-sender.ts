// The process that sends the load of overload.ts: in the same process, the audit and the engines' clients would delay
// it.
import { generateLoad, type LoadReport, type LoadStage } from '../support/load-generator.ts'
import { producerRequests } from '../support/producer-requests.ts'

export interface SenderOrder {
  urls: readonly string[]
  key: string
  batchEvents: number
  connections: number
  /** `perSecond: null` stands for Infinity, which JSON does not have. */
  stages: readonly (Omit<LoadStage, 'perSecond'> & { perSecond: number | null })[]
  from: number
}

let requests: ReturnType<typeof producerRequests> | undefined

process.on('message', (order: SenderOrder) => {
  void send(order).then((report) => process.send?.(report))
})
// The sender ends with its parent process.
process.on('disconnect', () => process.exit(1))

async function send({ key, batchEvents, stages, ...load }: SenderOrder): Promise<LoadReport> {
  requests ??= producerRequests({ key, batchEvents })
  const { requestFor } = requests
  return generateLoad({
    ...load,
    requestFor,
    stages: stages.map(({ perSecond, seconds }) => ({ perSecond: perSecond ?? Infinity, seconds })),
  })
}
