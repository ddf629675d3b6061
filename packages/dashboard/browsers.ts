/** The oldest browsers that the dashboard is built for. All of them know popovers: Firefox since 125, Safari since 17. */
export const browsers = { chrome: 120, firefox: 125, safari: 17 } as const

/** Their names, for texts. */
export const browsersText = `Chrome ${browsers.chrome}, Firefox ${browsers.firefox} or Safari ${browsers.safari}`
