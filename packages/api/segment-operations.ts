import { eventMediaTypes } from '@sluice/contracts/media-types'
import { segmentLimits } from '@sluice/contracts/segment-limits'
import { batchResult } from './collect.ts'
import type { Operation } from './operation.ts'
import { batchBody, messageBody, settingsBody } from './segment.ts'

const segment = {
  method: 'POST',
  section: 'Segment’s clients',
  scope: 'events:write',
  limit: 'events',
  rights: { of: 'key' },
  // When sites are not registered automatically (SLUICE_AUTO_REGISTER_SITES).
  errors: [404],
  dialect: 'segment',
  anyOrigin: true,
  quiet: true,
} as const

const message = {
  ...segment,
  body: { kind: 'bytes', types: eventMediaTypes, documented: messageBody, maxBytes: segmentLimits.messageBodyBytesMax },
  response: { status: 200 },
} as const

const batch = {
  ...segment,
  cost: 'body',
  body: { kind: 'bytes', types: eventMediaTypes, documented: batchBody, maxBytes: segmentLimits.batchBodyBytesMax },
  response: { status: 200, data: batchResult },
  failureData: { status: 400, data: batchResult },
} as const

const sameAs = (path: string, user = 'analytics.js uses'): string => `The same operation as ${path}; ${user} this path.`

/** The part of operations.ts for Segment's clients; the handlers are in services/gateway/segment. */
export const segmentOperations = {
  segmentTrack: {
    ...message,
    id: 'segmentTrack',
    path: '/v1/track',
    summary: 'Stores an action of a user as an event of that name. The answer is 200 once the event is durable.',
  },
  segmentPage: {
    ...message,
    id: 'segmentPage',
    path: '/v1/page',
    summary: 'Stores a page view as an event page_view.',
  },
  segmentScreen: {
    ...message,
    id: 'segmentScreen',
    path: '/v1/screen',
    summary: 'Stores the view of a screen as an event screen_view.',
  },
  segmentIdentify: {
    ...message,
    id: 'segmentIdentify',
    path: '/v1/identify',
    summary: 'Stores the traits of a user as an event identify. The traits are its properties.',
  },
  segmentGroup: {
    ...message,
    id: 'segmentGroup',
    path: '/v1/group',
    summary: 'Stores the group of a user as an event group. The traits of the group are its properties.',
  },
  segmentAlias: {
    ...message,
    id: 'segmentAlias',
    path: '/v1/alias',
    summary: 'Stores an alias of a user id as an event alias. Sluice does not merge the two users.',
  },
  segmentBatch: {
    ...batch,
    id: 'segmentBatch',
    path: '/v1/batch',
    summary: 'Stores up to 2,000 messages. Valid messages are accepted even if others are invalid.',
  },
  segmentTrackShort: { ...message, id: 'segmentTrackShort', path: '/v1/t', summary: sameAs('/v1/track') },
  segmentPageShort: { ...message, id: 'segmentPageShort', path: '/v1/p', summary: sameAs('/v1/page') },
  segmentScreenShort: { ...message, id: 'segmentScreenShort', path: '/v1/s', summary: sameAs('/v1/screen') },
  segmentIdentifyShort: { ...message, id: 'segmentIdentifyShort', path: '/v1/i', summary: sameAs('/v1/identify') },
  segmentGroupShort: { ...message, id: 'segmentGroupShort', path: '/v1/g', summary: sameAs('/v1/group') },
  segmentAliasShort: { ...message, id: 'segmentAliasShort', path: '/v1/a', summary: sameAs('/v1/alias') },
  segmentBatchShort: { ...batch, id: 'segmentBatchShort', path: '/v1/b', summary: sameAs('/v1/batch') },
  segmentImport: {
    ...batch,
    id: 'segmentImport',
    path: '/v1/import',
    summary: sameAs('/v1/batch', 'the clients for Ruby and older ones for Android use'),
  },
  segmentSettings: {
    id: 'segmentSettings',
    method: 'GET',
    path: '/v1/projects/:write_key/settings',
    section: 'Segment’s clients',
    summary: 'Tells the clients for apps at their start that their messages go to Sluice. The key is not checked.',
    scope: 'public',
    rights: { of: 'none' },
    response: { status: 200, body: settingsBody },
    dialect: 'segment',
    anyOrigin: true,
    quiet: true,
  },
} as const satisfies Readonly<Record<string, Operation>>
