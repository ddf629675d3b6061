import type { SiteCache } from '@sluice/access/site-cache'
import { operations } from '@sluice/api/operations'
import type { Route } from '@sluice/http/route'
import { eventAcceptor } from './collect/accept-event.ts'
import { collectHandler } from './collect/collect.ts'
import { batchAcceptor } from './collect-batch/accept-batch.ts'
import { collectBatchHandler } from './collect-batch/collect-batch.ts'
import type { CountRejection } from './metrics.ts'
import type { Publisher } from './publish/publisher.ts'
import type { MessageType } from './segment/map-message.ts'
import { segmentBatchHandler, segmentMessageHandler } from './segment/segment.ts'
import { segmentSettings } from './segment/settings.ts'

/** The operations of docs/http-interface.md#collection and #segment. */
export function gatewayRoutes(deps: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}): Route[] {
  const acceptEvent = eventAcceptor(deps)
  const acceptBatch = batchAcceptor(deps)
  const singleEventDeps = { acceptEvent, countRejection: deps.countRejection }
  const segmentMessage = (type: MessageType) => segmentMessageHandler(type, singleEventDeps)
  const segmentBatch = segmentBatchHandler(acceptBatch)
  return [
    { ...operations.collect, handle: collectHandler(singleEventDeps) },
    { ...operations.collectBatch, handle: collectBatchHandler(acceptBatch) },
    { ...operations.segmentTrack, handle: segmentMessage('track') },
    { ...operations.segmentPage, handle: segmentMessage('page') },
    { ...operations.segmentScreen, handle: segmentMessage('screen') },
    { ...operations.segmentIdentify, handle: segmentMessage('identify') },
    { ...operations.segmentGroup, handle: segmentMessage('group') },
    { ...operations.segmentAlias, handle: segmentMessage('alias') },
    { ...operations.segmentBatch, handle: segmentBatch },
    { ...operations.segmentTrackShort, handle: segmentMessage('track') },
    { ...operations.segmentPageShort, handle: segmentMessage('page') },
    { ...operations.segmentScreenShort, handle: segmentMessage('screen') },
    { ...operations.segmentIdentifyShort, handle: segmentMessage('identify') },
    { ...operations.segmentGroupShort, handle: segmentMessage('group') },
    { ...operations.segmentAliasShort, handle: segmentMessage('alias') },
    { ...operations.segmentBatchShort, handle: segmentBatch },
    { ...operations.segmentImport, handle: segmentBatch },
    { ...operations.segmentSettings, handle: segmentSettings },
  ]
}
