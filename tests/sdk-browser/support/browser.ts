/** A tab of a browser. */
export interface Tab {
  goto: (url: string) => Promise<unknown>
  /** The value of an expression, or of the promise that it gives. */
  evaluate: <T>(expression: string) => Promise<T>
  reload: () => Promise<unknown>
  close: () => Promise<void>
}

/** A running browser whose processes can be killed. */
export interface RunningBrowser {
  openTab: () => Promise<Tab>
  closeTabs: () => Promise<void>
  /** SIGKILL to the browser and everything that it has started. */
  kill: () => Promise<void>
  /** SIGKILL to the processes of the pages. */
  killPages: () => Promise<void>
  /** Takes the network away from a tab, or gives it back; absent where the browser cannot be told to. */
  setOffline?: (tab: Tab, isOffline: boolean) => Promise<void>
  /** Takes the storage of a tab's origin away, or gives it back; absent where the browser cannot be told to. */
  setStorageFull?: (tab: Tab, origin: string, isFull: boolean) => Promise<void>
}

/** A folder with what a browser remembers. */
export interface Profile {
  start: () => Promise<RunningBrowser>
  remove: () => Promise<void>
}

/** SIGKILL to a process, or by a negative id to a group. */
export function killProcess(id: number): void {
  try {
    process.kill(id, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}
