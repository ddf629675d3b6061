/** A bug that is put into the product, and that a chaos run must detect. */
export interface Mutation {
  name: string
  edits: readonly {
    file: string
    /** A text that occurs exactly once in the file. */
    from: string
    to: string
  }[]
  /** The faults of the run that detects it, as `--faults` takes them. */
  faults: string
  shows: 'lost' | 'twice'
}

export const mutations: readonly Mutation[] = [
  {
    name: 'the insert does not look at what is stored',
    edits: [
      {
        file: 'packages/event-store/insert/insert-events.ts',
        from: 'const isNew = `(site_id, environment, event_id, ${time}) NOT IN',
        to: 'const isNew = `1 OR (site_id, environment, event_id, ${time}) NOT IN',
      },
    ],
    faults: 'cut-insert-answer=2',
    shows: 'twice',
  },
  {
    name: 'the insert of undated events does not look at what is stored',
    edits: [
      {
        file: 'packages/event-store/insert/insert-events.ts',
        from: 'at -> NOT arrayExists(',
        to: 'at -> 1 OR NOT arrayExists(',
      },
    ],
    faults: 'cut-insert-answer=2',
    shows: 'twice',
  },
  {
    name: 'an insert runs beside another of its partition',
    edits: [
      {
        file: 'packages/event-store/insert/insert-events.ts',
        from: 'query_id: queryId,',
        to: 'query_id: `${queryId}-${performance.now()}`,',
      },
    ],
    faults: 'cut-insert-running=2,freeze-writer-inserting=1',
    shows: 'twice',
  },
  {
    name: 'lanes with locks of their own',
    edits: [
      {
        file: 'services/writer/store-batch.ts',
        from: 'const queryId = `writer-${logId}-${partition}`',
        to: "const queryId = `writer-${logId}-${partition}${statements ? '-old' : ''}`",
      },
    ],
    faults: 'meet-across-lanes=6',
    shows: 'twice',
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
    faults: 'kill-kafka=2,kill-gateway=2',
    shows: 'lost',
  },
  {
    name: 'the position is committed before the insert',
    edits: [
      { file: 'services/writer/consume-events.ts', from: 'await claim.commit(batch)', to: '// committed above' },
      {
        file: 'services/writer/consume-events.ts',
        from: 'const started = performance.now()',
        to: 'const started = performance.now(); await claim.commit(batch)',
      },
    ],
    faults: 'kill-writer-before-insert=3',
    shows: 'lost',
  },
]
