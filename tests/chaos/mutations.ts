import type { Edit } from '../support/mutate.ts'

/** A bug that is put into the product, and that a chaos run or a test must detect. */
export interface Mutation {
  name: string
  edits: readonly Edit[]
  detectedBy: ChaosRun | TestFile
}

interface ChaosRun {
  /** The faults of the run that detects it, as `--faults` takes them. */
  faults: string
  shows: 'lost' | 'twice'
}

interface TestFile {
  /** A file that passes without the bug, and of which a test fails with it. */
  testFile: string
}

export const mutations: readonly Mutation[] = [
  {
    name: 'the insert does not look at what is stored',
    edits: [
      {
        file: 'packages/event-store/insert/insert-new-events-statement.ts',
        from: '=> `(site_id, environment, event_id, ${time}) NOT IN',
        to: '=> `1 OR (site_id, environment, event_id, ${time}) NOT IN',
      },
    ],
    detectedBy: { faults: 'cut-insert-answer=2', shows: 'twice' },
  },
  {
    name: 'the insert of undated events does not look at what is stored',
    edits: [
      {
        file: 'packages/event-store/insert/insert-new-events-statement.ts',
        from: 'at -> NOT arrayExists(',
        to: 'at -> 1 OR NOT arrayExists(',
      },
    ],
    detectedBy: { faults: 'cut-insert-answer=2', shows: 'twice' },
  },
  {
    name: 'an insert runs beside another of its partition',
    edits: [
      {
        file: 'packages/event-store/insert/event-inserter.ts',
        from: 'query_id: queryId,',
        to: 'query_id: `${queryId}-${performance.now()}`,',
      },
    ],
    detectedBy: { faults: 'cut-insert-running=2,freeze-writer-inserting=1', shows: 'twice' },
  },
  {
    name: 'partitions with locks of their own',
    edits: [
      {
        file: 'services/writer/insert-lock.ts',
        from: '${partition % insertLockCount}',
        to: '${partition}',
      },
    ],
    detectedBy: { testFile: 'services/writer/insert-lock.test.ts' },
  },
  {
    name: 'logs with locks of their own',
    edits: [
      {
        file: 'services/writer/locked-insert.ts',
        from: 'const queryId = insertQueryId(logId, partition)',
        to: 'const queryId = `${insertQueryId(logId, partition)}${lockWait.onTimeout}`',
      },
    ],
    detectedBy: { faults: 'meet-across-lanes=6', shows: 'twice' },
  },
  {
    name: 'ids that gateways made to any partition, with several shards',
    edits: [
      {
        file: 'services/gateway/publish/registered-log.ts',
        from: 'mayHaveSeveralShards: () => performance.now() >= oneShardUntil',
        to: 'mayHaveSeveralShards: () => false',
      },
    ],
    detectedBy: { testFile: 'tests/shards/sent-again.test.ts' },
  },
  {
    name: 'copies of an event to different shards',
    edits: [
      {
        file: 'services/writer/locked-insert.ts',
        from: 'const options = { queryId, shouldReplaceRunning, partition,',
        to: 'const options = { queryId, shouldReplaceRunning, partition: partition + Math.round(performance.now()),',
      },
    ],
    detectedBy: { testFile: 'services/writer/shards.test.ts' },
  },
  {
    name: '202 before the log has acknowledged',
    edits: [
      {
        file: 'services/gateway/publish/publisher.ts',
        from: 'return new Promise((resolve, reject) => {',
        to: 'return new Promise((resolve, reject) => { resolve()',
      },
    ],
    detectedBy: { faults: 'kill-kafka=2,kill-gateway=2', shows: 'lost' },
  },
  {
    name: 'the offset is committed before the insert',
    edits: [
      { file: 'services/writer/process-batch.ts', from: 'await claim.commit(batch)', to: '// committed above' },
      {
        file: 'services/writer/process-batch.ts',
        from: 'const started = performance.now()',
        to: 'const started = performance.now(); await claim.commit(batch)',
      },
    ],
    detectedBy: { faults: 'kill-writer-before-insert=3', shows: 'lost' },
  },
  {
    name: 'whoever lost a lease can write all the same',
    edits: [{ file: 'packages/postgres/leases.ts', from: ' AND lease = ${lease}`', to: ' AND ${lease}::int > 0`' }],
    detectedBy: { testFile: 'packages/postgres/leases.test.ts' },
  },
  {
    name: 'jobs are due by the clock of Postgres',
    edits: [
      {
        file: 'packages/postgres/leases.ts',
        from: 'return sql`due_at <= ${at} AND',
        to: 'return sql`due_at <= now() AND',
      },
    ],
    detectedBy: { testFile: 'packages/postgres/leases.test.ts' },
  },
  {
    name: "a segment is recorded outside of the transaction of its import's counts",
    edits: [
      {
        file: 'packages/postgres/imports.ts',
        from: "await transaction\n          .updateTable('import_segments')",
        to: "await postgres.db\n          .updateTable('import_segments')",
      },
    ],
    detectedBy: { testFile: 'packages/postgres/imports.test.ts' },
  },
  {
    name: 'events without an id get one from their import',
    edits: [
      {
        file: 'services/worker/imports/import-unit.ts',
        from: '{ type, siteId, environment, seq, sha256, acceptedAt: receivedAt }: ImportRecord',
        to: '{ type, siteId, environment, seq, importId: sha256, acceptedAt: receivedAt }: ImportRecord',
      },
    ],
    detectedBy: { testFile: 'tests/imports/imports.test.ts' },
  },
  {
    name: 'a response that a lost connection cut off is kept',
    edits: [{ file: 'packages/event-log/kafka/client.ts', from: '    emitWholeFrames(socket)\n', to: '' }],
    detectedBy: { testFile: 'packages/event-log/kafka/faults.test.ts' },
  },
  {
    name: 'a run of a schedule ends now',
    edits: [
      {
        file: 'packages/postgres/export-schedules.ts',
        from: 'Math.min(at, receipt.completeUntil, await firstUnstoredImport(db, definition.siteId, receipt.completeUntil))',
        to: 'at',
      },
    ],
    detectedBy: { testFile: 'services/worker/exports/schedule-unit.test.ts' },
  },
  {
    name: 'an export begins anew in a file that goes on',
    edits: [
      {
        file: 'services/worker/exports/write-file.ts',
        from: 'source.slices(written.afterKey, (select)',
        to: 'source.slices(undefined, (select)',
      },
    ],
    detectedBy: { testFile: 'services/worker/exports/resume.test.ts' },
  },
  {
    name: 'the insert stores what was erased',
    edits: [
      {
        file: 'packages/event-store/insert/insert-new-events-statement.ts',
        from: 'condition: isKept,',
        to: "condition: '1',",
      },
    ],
    detectedBy: { testFile: 'services/worker/erasures/erasures.test.ts' },
  },
  {
    name: 'an erasure does not wait for the inserts that are running',
    edits: [
      {
        file: 'services/worker/erasures/erasure-unit.ts',
        from: '    await eraser.waitForInserts(lease.signal)\n',
        to: '',
      },
    ],
    detectedBy: { testFile: 'services/worker/erasures/erasures.test.ts' },
  },
  {
    name: 'an evaluation of an alert rule has no minute guard',
    edits: [
      {
        file: 'packages/postgres/alert-evaluations.ts',
        from: "    .where('alert_rules.evaluated_minute', '<', new Date(minute))\n",
        to: '',
      },
    ],
    detectedBy: { testFile: 'packages/postgres/alert-evaluations.test.ts' },
  },
  {
    name: 'alert rules are evaluated until now, whatever is complete',
    edits: [
      {
        file: 'services/worker/alerts/alert-unit.ts',
        from: 'const complete = Math.min(newest, startOfMinute(completeUntilMs))',
        to: 'const complete = newest',
      },
    ],
    detectedBy: { testFile: 'services/worker/alerts/alert-unit.test.ts' },
  },
  {
    name: 'webhook addresses are judged in lookup only, which literals do not pass through',
    edits: [
      {
        file: 'packages/outbound/guarded-connect.ts',
        from: '  requireAllowedLiteral(hostname, rules)\n',
        to: '',
      },
    ],
    detectedBy: { testFile: 'packages/outbound/refused-targets.test.ts' },
  },
  {
    name: 'webhook addresses are judged at creation only',
    edits: [
      {
        file: 'packages/outbound/guarded-connect.ts',
        from: 'addresses.filter((address) => rules.isAllowed(address))',
        to: '[...addresses]; void rules',
      },
    ],
    detectedBy: { testFile: 'packages/outbound/refused-targets.test.ts' },
  },
  {
    name: 'attempts are limited for all endpoints together only',
    edits: [
      { file: 'packages/postgres/delivery-queue.ts', from: 'const slots = 4', to: 'const slots = 256' },
      {
        file: 'packages/postgres/delivery-queue.ts',
        from: 'const slotsOfFailing = 1',
        to: 'const slotsOfFailing = 256',
      },
    ],
    detectedBy: { testFile: 'tests/webhooks/hanging-receivers.test.ts' },
  },
  {
    name: 'each attempt has an id of its own',
    edits: [
      {
        file: 'services/worker/webhooks/attempt.ts',
        from: "'x-svc-delivery': id,",
        to: "'x-svc-delivery': `${id}-${timestamp}`,",
      },
    ],
    detectedBy: { testFile: 'services/worker/webhooks/sender.test.ts' },
  },
  {
    name: 'an attempt is recorded without its lease',
    edits: [
      {
        file: 'packages/postgres/record-attempt.ts',
        from: 'WHERE delivery_id = ${key.id} AND lease = ${key.lease} FOR UPDATE',
        to: 'WHERE delivery_id = ${key.id} FOR UPDATE',
      },
    ],
    detectedBy: { testFile: 'packages/postgres/delivery-queue.test.ts' },
  },
]
