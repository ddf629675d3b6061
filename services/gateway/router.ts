import type { SiteCache } from '@sluice/access/site-cache'
import { operations } from '@sluice/api/operations'
import type { Route } from '@sluice/http/route'
import { eventAcceptor } from './collect/accept-event.ts'
import { collectHandler } from './collect/collect.ts'
import { eventsAcceptor } from './collect-batch/accept-events.ts'
import { collectBatchHandler } from './collect-batch/collect-batch.ts'
import type { CountRejection } from './metrics.ts'
import type { Publisher } from './publish/publisher.ts'
import type { MessageType } from './segment/map-message.ts'
import { segmentBatchHandler, segmentMessageHandler } from './segment/segment.ts'

/** The operations of docs/http-interface.md#collection and #segment. */
export function gatewayRoutes(deps: {
  publisher: Publisher
  sites: Pick<SiteCache, 'register'>
  countRejection: CountRejection
}): Route[] {
  const acceptEvent = eventAcceptor(deps)
  const acceptEvents = eventsAcceptor(deps)
  const takeOne = { acceptEvent, countRejection: deps.countRejection }
  const message = (type: MessageType) => segmentMessageHandler(type, takeOne)
  const takeMessages = segmentBatchHandler(acceptEvents)
  return [
    { ...operations.collect, handle: collectHandler(takeOne) },
    { ...operations.collectBatch, handle: collectBatchHandler(acceptEvents) },
    { ...operations.segmentTrack, handle: message('track') },
    { ...operations.segmentPage, handle: message('page') },
    { ...operations.segmentScreen, handle: message('screen') },
    { ...operations.segmentIdentify, handle: message('identify') },
    { ...operations.segmentGroup, handle: message('group') },
    { ...operations.segmentAlias, handle: message('alias') },
    { ...operations.segmentBatch, handle: takeMessages },
    { ...operations.segmentTrackShort, handle: message('track') },
    { ...operations.segmentPageShort, handle: message('page') },
    { ...operations.segmentScreenShort, handle: message('screen') },
    { ...operations.segmentIdentifyShort, handle: message('identify') },
    { ...operations.segmentGroupShort, handle: message('group') },
    { ...operations.segmentAliasShort, handle: message('alias') },
    { ...operations.segmentBatchShort, handle: takeMessages },
  ]
}
